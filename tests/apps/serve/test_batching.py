"""Batches: which jobs share one, which are refused, and that every job gets its own result."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from l2x.apps.serve._batching import Batcher, WorkError, contained
from l2x.apps.serve._requests import ServiceError


def squares(numbers: Sequence[int]) -> list[int]:
    return [number * number for number in numbers]


def batcher(work: Any = squares, **options: Any) -> Batcher[Any, Any]:
    return Batcher(work, **({"max_rows": 8, "queue": 1000, "promise": 30.0} | options))


def test_jobs_that_arrive_together_share_a_batch_and_keep_their_results() -> None:
    sizes: list[int] = []

    async def main() -> list[int]:
        made = batcher(observe=lambda waiting, batch: sizes.append(batch))
        found = await asyncio.gather(*(made.submit(n, 1) for n in range(50)))
        made.close()
        return found

    assert asyncio.run(main()) == squares(range(50))
    assert sum(sizes) == 50
    assert max(sizes) == 8
    assert len(sizes) < 15


def test_results_are_never_mixed_up() -> None:
    """Random sizes, kinds, failures and cancellations: every job that gets a result gets its own."""
    rng = random.Random(0)

    def work(contents: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        assert len({kind for kind, _ in contents}) == 1  # never two kinds
        if any(number % 17 == 0 for _, number in contents):
            raise ValueError("one of these is bad")
        return [(kind, -number) for kind, number in contents]

    async def one(made: Batcher[Any, Any], number: int) -> str:
        kind = rng.randrange(3)
        await asyncio.sleep(rng.random() * 0.05)
        try:
            async with asyncio.timeout(0.001 if rng.random() < 0.1 else 30):
                found = await made.submit((kind, number), rng.randrange(1, 5), kind)
        except TimeoutError:
            return "gone"
        except ValueError:
            assert number % 17 == 0
            return "failed"
        assert found == (kind, -number)
        return "right"

    async def main() -> list[str]:
        made = batcher(work)
        found = await asyncio.gather(*(one(made, number) for number in range(400)))
        assert await made.submit((0, 5), 1, 0) == (0, -5)  # works as before
        made.close()
        return found

    outcomes = asyncio.run(main())
    assert outcomes.count("right") > 250
    assert 10 <= outcomes.count("failed") <= 24


def test_a_full_queue_refuses_and_tells_when_to_retry() -> None:
    release = threading.Event()

    def slow(contents: Sequence[int]) -> list[int]:
        release.wait(30)
        return squares(contents)

    async def main() -> None:
        made = batcher(slow, max_rows=1, queue=5)
        first = asyncio.create_task(made.submit(1, 1))
        await asyncio.sleep(0.05)  # running: no longer in the queue
        waiting = [asyncio.create_task(made.submit(n, 1)) for n in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(ServiceError) as refused:
            await made.submit(9, 1)
        assert refused.value.status == 503
        assert int(refused.value.headers["Retry-After"]) >= 1
        release.set()
        assert await asyncio.gather(first, *waiting) == [1, 0, 1, 4, 9, 16]
        assert await made.submit(9, 100) == 81  # more rows than the queue holds, alone
        made.close()

    asyncio.run(main())


def test_a_turn_that_would_come_too_late_is_refused_beforehand() -> None:
    def slow(contents: Sequence[int]) -> list[int]:
        threading.Event().wait(0.2)
        return squares(contents)

    async def main() -> None:
        made = batcher(slow, max_rows=1, promise=1.0)
        for _ in range(12):  # the batcher learns that a row takes 0.2 s
            await made.submit(1, 1)
        jobs = [asyncio.create_task(made.submit(n, 1)) for n in range(12)]
        done = await asyncio.gather(*jobs, return_exceptions=True)
        refused = [one for one in done if isinstance(one, ServiceError)]
        assert {one.status for one in refused} == {503}
        assert 2 <= 12 - len(refused) <= 5
        made.close()

    asyncio.run(main())


def test_jobs_that_take_too_long_fail_with_504() -> None:
    release = threading.Event()

    def stuck(contents: Sequence[int]) -> list[int]:
        release.wait(30)
        return squares(contents)

    async def main() -> None:
        made = batcher(stuck, max_rows=1, promise=0.2)
        jobs = [asyncio.create_task(made.submit(n, 1)) for n in range(3)]
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert all(isinstance(one, ServiceError) for one in done)
        assert [one.status for one in done] == [
            504,
            503,
            503,
        ]  # the first was running, the turn of the others never came
        release.set()
        assert await made.submit(7, 1) == 49
        made.close()

    asyncio.run(main())


def test_a_missing_result_is_an_error() -> None:
    async def main() -> None:
        made = batcher(lambda contents: squares(contents)[1:])
        done = await asyncio.gather(*(made.submit(n, 1) for n in range(4)), return_exceptions=True)
        assert all(isinstance(one, RuntimeError) for one in done)
        made.close()

    asyncio.run(main())


def test_a_failing_job_does_not_affect_the_next_one() -> None:
    def work(contents: Sequence[int]) -> list[int]:
        if -1 in contents:
            raise ValueError("bad")
        return squares(contents)

    async def main() -> None:
        made = batcher(work)
        for _ in range(2):
            with pytest.raises(ValueError, match="bad"):
                await made.submit(-1, 1)
            assert await made.submit(3, 1) == 9
        made.close()

    asyncio.run(main())


class Panic(BaseException):
    """Like the exception that pyo3 raises if Rust code panics."""


@pytest.mark.parametrize(
    "raised", [Panic, SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration]
)
@pytest.mark.parametrize("together", [1, 3])
def test_anything_that_the_work_raises_fails_only_its_own_job(
    raised: type[BaseException], together: int
) -> None:
    def work(contents: Sequence[int]) -> list[int]:
        if -1 in contents:
            raise raised("in the work")
        return squares(contents)

    async def main() -> None:
        made = batcher(work)
        async with asyncio.timeout(10):
            jobs = [made.submit(number, 1) for number in [-1, *range(1, together)]]
            failed, *others = await asyncio.gather(*jobs, return_exceptions=True)
            assert isinstance(failed, WorkError)
            assert isinstance(failed.__cause__, raised)
            assert others == squares(range(1, together))
            assert await made.submit(3, 1) == 9
        made.close()

    # Python raises Ctrl-C only in the main thread; in another thread the work itself raises it.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, main()).result()


def test_ctrl_c_in_the_main_thread_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        contained(signal.default_int_handler, signal.SIGINT, None)


def test_a_timeout_of_the_work_itself_is_an_ordinary_error() -> None:
    def work(contents: Sequence[int]) -> list[int]:
        raise TimeoutError("of the model")

    async def main() -> None:
        made = batcher(work)
        with pytest.raises(TimeoutError, match="of the model"):
            await made.submit(1, 1)
        made.close()

    asyncio.run(main())
