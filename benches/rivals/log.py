"""Time in the caller of one logged step of ten metrics, in trackers that users would pick instead.

usage: log.py STEPS      one child process a tracker; microseconds a step
"""
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

ROW = {f"metric/{i}": 0.5 * i for i in range(10)}


def mlflow_calls(folder):
    import logging

    logging.disable(logging.CRITICAL)
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.start_run()
    return lambda step: mlflow.log_metrics(ROW, step=step), mlflow.end_run


def wandb_calls(folder):
    import wandb

    run = wandb.init(project="bench", mode="offline", dir=folder)
    return lambda step: run.log(ROW, step=step), run.finish


def tensorboard_calls(folder):
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(folder)

    def log(step):
        for key, value in ROW.items():
            writer.add_scalar(key, value, step)

    return log, writer.close


def trackio_calls(folder):
    import trackio

    trackio.init(project="bench")
    return lambda step: trackio.log(ROW, step=step), trackio.finish


# tracker -> (module it needs, how to call it, share of STEPS that it gets, since some are slow)
TRACKERS = {
    "MLflow": ("mlflow", mlflow_calls, 0.1),
    "W&B offline": ("wandb", wandb_calls, 1.0),
    "tensorboardX": ("tensorboardX", tensorboard_calls, 1.0),
    "Trackio": ("trackio", trackio_calls, 1.0),
}


def one(name, steps):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        _, calls, _ = TRACKERS[name]
        log, close = calls(folder)
        log(0)
        begin = time.perf_counter()
        for step in range(1, steps + 1):
            log(step)
        call = time.perf_counter() - begin
        close()
        print(f"\nfigure\t{name}\tlog call\t{1e6 * call / steps}", flush=True)
        os._exit(0)


def main():
    if len(sys.argv) == 3:
        one(sys.argv[1], int(sys.argv[2]))
        return
    steps = int(sys.argv[1])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        quiet = {
            "WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_ENABLE_ASYNC_LOGGING": "false", "DO_NOT_TRACK": "true", "TRACKIO_DIR": home,
        }
        for name, (module, _, share) in TRACKERS.items():
            if importlib.util.find_spec(module) is None:
                print(f"{name}: not installed", flush=True)
                continue
            command = [sys.executable, __file__, name, str(max(1, int(steps * share)))]
            ended = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True)
            figures = [line for line in ended.stdout.splitlines() if line.startswith("figure\t")]
            print("\n".join(figures) or f"{name}: failed: {ended.stderr.strip()[-200:]}", flush=True)


main()
