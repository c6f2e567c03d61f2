"""The paper's experiments: data and models in; results/*.json, figures and a page out.

Words, each with one meaning here:

    experiment  jobs, and how they are done; `runner.run` does those that its results file does not hold yet
    budget      how much work a run does: rows and training steps, full or quick
    setting     one problem, set up: a trained black box, its data in parts, a judge
    contender   a method under comparison, by the name that its records carry; the table is in contenders.py
    job         one contender with one seed on one setting, still to be measured
    record      what a job measured: one flat JSON object of results/<experiment>.json
    report      the tables, figures and page that are drawn from records alone
"""
