"""Threads, signals and forks."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import faltung
from faltung import ndimage

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt. A shell may start jobs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def problem(seed, side=300, dtype=np.float32):
    random = np.random.default_rng(seed)
    return (random.random((side, side)) * 200).astype(dtype), random.random((9, 9))


def long_call(seconds, call=ndimage.correlate, dtype=np.float64):
    """The image and the mask of a call that takes about `seconds`, and at most 320 MB."""
    random = np.random.default_rng(5)
    mask = random.random((61, 61))
    image = random.random((200, 1000), np.float32).astype(dtype)
    begin = time.perf_counter()
    call(image, mask)
    each = time.perf_counter() - begin
    rows = int(200 * min(max(1.0, seconds / each), 100))
    return random.random((rows, 1000), np.float32).astype(dtype), mask


def exact_filter2d(image, mask):
    return faltung.filter2D(image, -1, mask, accuracy="exact")


def run(program, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, **options
    )


def test_threads_give_the_same_results():
    calls = []
    for seed in range(6):
        for dtype in (np.uint8, np.float32, np.float64):
            image, mask = problem(seed, dtype=dtype)
            calls.append(lambda image=image, mask=mask: ndimage.convolve(image, mask / mask.sum()))
            calls.append(lambda image=image: ndimage.gaussian_filter(image, 2.5))
            calls.append(lambda image=image: ndimage.uniform_filter(image, 7, mode="wrap"))
    alone = [call() for call in calls]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            for result, expected in zip(pool.map(lambda call: call(), calls), alone):
                assert result.dtype == expected.dtype and np.array_equal(result, expected)


def test_a_thread_runs_during_a_long_call():
    image, mask = long_call(1.0)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.005)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        time.sleep(0.02)
        begin = time.perf_counter()
        ndimage.correlate(image, mask)
        end = time.perf_counter()
    finally:
        done.set()
        thread.join()
    during = [t for t in ticks if begin < t < end]
    assert end - begin > 0.2, "the call is too short to tell"
    # With the GIL held the thread would have no tick but those at the two ends.
    assert len(during) >= 10, f"{len(during)} ticks in {end - begin:.2f} s"
    assert max(np.diff([begin, *during, end])) < 0.5 * (end - begin)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="this system has no list of threads")
def test_info_starts_no_other_threads_than_filters():
    program = """
        import os
        import numpy as np, faltung
        count = lambda: len(os.listdir("/proc/self/task"))
        before = count()
        threads = faltung.info()["threads"]
        faltung.filter2D(np.zeros((600, 600), np.float32), -1, np.ones((9, 9)))
        print(threads, count() - before)
    """
    done = run(program, env={**os.environ, "RAYON_NUM_THREADS": "3"})
    assert done.stdout.split() == ["3", "3"], done.stdout + done.stderr


@pytest.mark.parametrize(
    "call, dtype", [(ndimage.correlate, np.float64), (exact_filter2d, np.float32), (exact_filter2d, np.float64)]
)
def test_an_interrupt_ends_a_long_call(interrupts, call, dtype):
    image, mask = long_call(6.0, call, dtype)
    sent = []

    def interrupt():
        time.sleep(0.3)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    begin = time.perf_counter()
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call(image, mask)
        # A call that took no notice ends here, before the pending signal is handled.
        pytest.fail("the call ran to its end")
    end = time.perf_counter()
    thread.join()
    assert end - sent[0] < 2.0, f"the call ended {end - sent[0]:.1f} s after the signal"
    assert end - begin < 4.0
    # The next call works.
    small, small_mask = problem(1)
    assert np.array_equal(ndimage.correlate(small, small_mask), ndimage.correlate(small, small_mask))


def test_other_threads_leave_signals_to_the_main_thread(interrupts):
    image, mask = long_call(0.5)
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(ndimage.correlate, image, mask)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        assert task.result().shape == image.shape


@needs_fork
def test_fork_after_use():
    program = """
        import os, sys
        import numpy as np
        from faltung import ndimage
        image = np.random.default_rng(1).random((500, 500))
        expected = ndimage.gaussian_filter(image, 3.0)
        child = os.fork()
        if child == 0:
            same = np.array_equal(ndimage.gaussian_filter(image, 3.0), expected)
            os._exit(7 if same else 1)
        _, status = os.waitpid(child, 0)
        assert np.array_equal(ndimage.gaussian_filter(image, 3.0), expected)
        sys.exit(os.waitstatus_to_exitcode(status))
    """
    result = run(program)
    assert result.returncode == 7, result.stderr


@needs_fork
def test_fork_after_short_calls():
    program = """
        import os, signal, sys
        import faltung
        import numpy as np
        from faltung import ndimage
        for side in [100, 300, 500, 600, 724, 900]:
            for kind in ["u1", "f4", "f8"]:
                image = np.zeros((side, side), kind)
                for work in [
                    lambda: ndimage.uniform_filter(image, 5),
                    lambda: ndimage.sobel(image),
                    lambda: ndimage.gaussian_filter(image, 1),
                    lambda: ndimage.convolve(image, np.ones((2, 2)) / 4),
                    lambda: faltung.blur(image, (5, 5)),
                    lambda: faltung.filter2D(image, -1, np.ones((5, 5))),
                    lambda: faltung.GaussianBlur(image, (5, 5), 1),
                ]:
                    work()
                    child = os.fork()
                    if child == 0:
                        signal.alarm(20)
                        work()
                        os._exit(0)
                    _, status = os.waitpid(child, 0)
                    if status:
                        sys.exit(f"{side} {kind}: {status}")
    """
    result = run(program)
    assert result.returncode == 0, result.stderr


@needs_fork
def test_fork_while_other_threads_look_for_filters():
    program = """
        import os, signal, sys, threading
        import faltung
        import numpy as np
        image, mask = np.zeros((4, 4), "u1"), np.ones((701, 701)) / 701**2
        done = threading.Event()

        def work():
            while not done.is_set():
                faltung.filter2D(image, -1, mask)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(150):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                faltung.filter2D(image, -1, np.ones((3, 3)))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if status:
                break
        done.set()
        sys.exit(f"child {number}: {status}" if status else 0)
    """
    result = run(program)
    assert result.returncode == 0, result.stderr


@needs_fork
def test_a_child_may_ask_for_devices_where_there_is_no_driver():
    program = """
        import os, sys
        import faltung
        if faltung.info()["driver"] is not None:
            sys.exit(7)
        child = os.fork()
        if child == 0:
            same = faltung.devices() == [] and "forked" not in faltung.info()["reason"]
            os._exit(7 if same else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    result = run(program)
    assert result.returncode == 7, result.stderr


def in_child(seed):
    image, mask = problem(seed)
    return ndimage.convolve(image, mask)


@needs_fork
def test_pool_of_forked_processes():
    program = """
        import multiprocessing
        import numpy as np
        from faltung import ndimage

        def work(seed):
            image = np.random.default_rng(seed).random((300, 300))
            return ndimage.gaussian_filter(image, 2.0)

        expected = [work(seed) for seed in range(4)]
        with multiprocessing.get_context("fork").Pool(2) as pool:
            results = pool.map(work, range(4))
        assert all(np.array_equal(a, b) for a, b in zip(results, expected))
    """
    result = run(program)
    assert result.returncode == 0, result.stderr


def test_pool_of_spawned_processes():
    expected = [in_child(seed) for seed in range(2)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.map(in_child, range(2))
    assert all(np.array_equal(a, b) for a, b in zip(results, expected))
