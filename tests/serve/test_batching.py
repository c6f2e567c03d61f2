"""Batches: who shares one, who is refused, and that nobody gets another's result."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from l2x.apps.serve._batching import Batcher, WorkError
from l2x.apps.serve._refusals import ServiceError


def squares(numbers: Sequence[int]) -> list[int]:
    return [number * number for number in numbers]


def batcher(work: Any = squares, **options: Any) -> Batcher[Any, Any]:
    return Batcher(work, **({"most": 8, "queue": 1000, "promise": 30.0} | options))


@pytest.mark.parametrize("inline", [0, 100])
def test_jobs_that_come_together_share_a_batch_and_keep_their_results(inline: int) -> None:
    sizes: list[int] = []

    async def main() -> list[int]:
        made = batcher(inline=inline, watch=lambda waiting, batch: sizes.append(batch))
        found = await asyncio.gather(*(made.submit(n, 1) for n in range(50)))
        made.close()
        return found

    assert asyncio.run(main()) == squares(range(50))
    assert sum(sizes) == 50
    assert max(sizes) == 8
    assert len(sizes) < 15


def test_no_result_is_ever_another_jobs() -> None:
    """Random sizes, kinds, failures and cancellations: whoever gets a result gets its own."""
    rng = random.Random(0)

    def work(contents: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        assert len({kind for kind, _ in contents}) == 1  # never of two kinds
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
        made = batcher(work, inline=3)
        found = await asyncio.gather(*(one(made, number) for number in range(400)))
        assert await made.submit((0, 5), 1, 0) == (0, -5)  # as ever
        made.close()
        return found

    outcomes = asyncio.run(main())
    assert outcomes.count("right") > 250
    assert 10 <= outcomes.count("failed") <= 24


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    release = threading.Event()

    def slow(contents: Sequence[int]) -> list[int]:
        release.wait(30)
        return squares(contents)

    async def main() -> None:
        made = batcher(slow, most=1, queue=5)
        first = asyncio.create_task(made.submit(1, 1))
        await asyncio.sleep(0.05)  # at work: no longer in the queue
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
        made = batcher(slow, most=1, promise=1.0)
        for _ in range(12):  # it learns that a row takes 0.2 s
            await made.submit(1, 1)
        jobs = [asyncio.create_task(made.submit(n, 1)) for n in range(12)]
        done = await asyncio.gather(*jobs, return_exceptions=True)
        refused = [one for one in done if isinstance(one, ServiceError)]
        assert {one.status for one in refused} == {503}
        assert 2 <= 12 - len(refused) <= 5
        made.close()

    asyncio.run(main())


def test_what_is_promised_too_long_ago_fails_with_504() -> None:
    release = threading.Event()

    def stuck(contents: Sequence[int]) -> list[int]:
        release.wait(30)
        return squares(contents)

    async def main() -> None:
        made = batcher(stuck, most=1, promise=0.2)
        jobs = [asyncio.create_task(made.submit(n, 1)) for n in range(3)]
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert all(isinstance(one, ServiceError) for one in done)
        assert [one.status for one in done] == [504, 503, 503]  # one was at work, the others' turn never came
        release.set()
        assert await made.submit(7, 1) == 49
        made.close()

    asyncio.run(main())


def test_work_that_loses_a_result_is_an_error_not_a_shift() -> None:
    async def main() -> None:
        made = batcher(lambda contents: squares(contents)[1:])
        done = await asyncio.gather(*(made.submit(n, 1) for n in range(4)), return_exceptions=True)
        assert all(isinstance(one, RuntimeError) for one in done)
        made.close()

    asyncio.run(main())


def test_a_lone_small_job_is_done_at_once_and_what_comes_with_it_shares_the_next_batch() -> None:
    sizes: list[int] = []

    async def main() -> None:
        made = batcher(inline=100, watch=lambda waiting, batch: sizes.append(batch))
        for number in range(3):
            assert await made.submit(number, 1) == number * number
            await asyncio.sleep(0)
        assert sizes == [1, 1, 1]
        assert await asyncio.gather(*(made.submit(n, 1) for n in range(6))) == squares(range(6))
        assert sizes[3:] == [1, 5]
        await asyncio.sleep(0)
        assert await asyncio.gather(*(made.submit(n, 1) for n in range(6))) == squares(range(6))
        assert sizes[5:] == [6]  # it has seen that they come together
        made.close()

    asyncio.run(main())


def test_a_job_that_fails_at_once_leaves_the_next_one_as_it_was() -> None:
    def work(contents: Sequence[int]) -> list[int]:
        if -1 in contents:
            raise ValueError("bad")
        return squares(contents)

    async def main() -> None:
        made = batcher(work, inline=100)
        for _ in range(2):
            with pytest.raises(ValueError, match="bad"):
                await made.submit(-1, 1)
            assert await made.submit(3, 1) == 9
        made.close()

    asyncio.run(main())


class Panic(BaseException):
    """What pyo3 raises where Rust code panics."""


@pytest.mark.parametrize(
    "raised", [Panic, SystemExit, KeyboardInterrupt, asyncio.CancelledError, StopIteration]
)
@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("inline", [0, 100])
def test_whatever_the_work_raises_fails_its_own_jobs_and_leaves_the_batcher_ready(
    raised: type[BaseException], together: int, inline: int
) -> None:
    def work(contents: Sequence[int]) -> list[int]:
        if -1 in contents:
            raise raised("in the work")
        return squares(contents)

    async def main() -> None:
        made = batcher(work, inline=inline)
        async with asyncio.timeout(10):
            jobs = [made.submit(number, 1) for number in [-1, *range(1, together)]]
            failed, *others = await asyncio.gather(*jobs, return_exceptions=True)
            assert isinstance(failed, WorkError)
            assert isinstance(failed.__cause__, raised)
            assert others == squares(range(1, together))
            assert await made.submit(3, 1) == 9
        made.close()

    # Python raises Ctrl-C in the main thread alone: in another one it is the work's own.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, main()).result()


@pytest.mark.parametrize("before", [1, 3])  # the next job is done at once, or waits in the queue
def test_an_interruption_of_the_main_thread_stops_the_loop(before: int) -> None:
    def work(contents: Sequence[int]) -> list[int]:
        if -1 in contents:
            signal.raise_signal(signal.SIGINT)
        return squares(contents)

    async def main() -> None:
        # That of asyncio would cancel the main task in the next turn of the loop.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        made = batcher(work, inline=100)
        await asyncio.gather(*(made.submit(number, 1) for number in range(before)))
        await asyncio.sleep(0)
        try:
            await made.submit(-1, 1)
        finally:
            made.close()

    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, handler)
