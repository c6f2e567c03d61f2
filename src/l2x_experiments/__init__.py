"""The paper's experiments: they measure, write results/*.json, and make tables, figures and a page from it.

Terms, each with one meaning in this package:

    experiment  a list of jobs and the function that measures them; `runner.run` skips jobs already on file
    budget      how much work a run does: rows and training steps, full or quick
    setting     one problem, ready to be explained: a trained model, its data in parts, an evaluator
    method      one of the methods compared, by the name that its records carry; methods.py lists all of them
    job         one method with one seed in one setting, not measured yet
    record      what a job measured: one flat JSON object in results/<experiment>.json
    report      tables, figures and a page, made from records alone

Each experiment is one module: `experiment(...)` returns its jobs, `report(records)` its page.
"""
