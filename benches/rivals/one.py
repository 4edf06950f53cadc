"""Reads one node out of a folder of parts in the engines that users would pick instead: its identity is a condition, and for
every field the non-null value of the lowest process index, then of the latest write, is the answer.

usage: one.py VALUES NAME NONCE SEQ      milliseconds, median of five after one that warms up
"""
import glob
import sys
import time

import pyarrow.parquet as pq

FOLDER, NAME, NONCE, SEQ = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
FILES = sorted(glob.glob(f"{FOLDER}/part-*.parquet"))
FIELDS = sorted({name for file in FILES for name in pq.read_schema(file).names if not name.startswith("_x_")})
IDENTITY = ["_x_name", "_x_nonce", "_x_seq"]
WHERE = f"_x_name = '{NAME}' AND _x_nonce = '{NONCE}' AND _x_seq = {SEQ}"


def chdb_one():
    import chdb

    picks = ", ".join(
        f'argMaxIf("{f}", (-"_x_prc_idx", "_x_write"), isNotNull("{f}")) AS "{f}"' for f in FIELDS
    )
    text = (
        f"SELECT {', '.join(IDENTITY)}, {picks} FROM file('{FOLDER}/*.parquet', Parquet) WHERE {WHERE} "
        f"GROUP BY {', '.join(IDENTITY)} SETTINGS schema_inference_mode='union', max_query_size=10000000"
    )
    return chdb.query(text, "ArrowTable").num_rows


def duckdb_one():
    import duckdb

    # What it has to remember footers with.
    duckdb.sql("SET parquet_metadata_cache = true")
    picks = ", ".join(
        f"arg_max(\"{f}\", {{'process': -_x_prc_idx, 'write': _x_write}}) FILTER (WHERE \"{f}\" IS NOT NULL) "
        f'AS "{f}"'
        for f in FIELDS
    )
    text = (
        f"SELECT {', '.join(IDENTITY)}, {picks} FROM read_parquet('{FOLDER}/*.parquet', union_by_name=true) "
        f"WHERE {WHERE} GROUP BY ALL"
    )
    return len(duckdb.sql(text).fetch_arrow_table())


def polars_one():
    import polars as pl

    frame = pl.concat([pl.scan_parquet(file) for file in FILES], how="diagonal")
    frame = frame.filter((pl.col("_x_name") == NAME) & (pl.col("_x_nonce") == NONCE) & (pl.col("_x_seq") == SEQ))
    frame = frame.sort(["_x_prc_idx", "_x_write"], descending=[False, True])
    return frame.group_by(IDENTITY).agg([pl.col(f).drop_nulls().first() for f in FIELDS]).collect().height


for name, one in [("chdb", chdb_one), ("DuckDB", duckdb_one), ("Polars", polars_one)]:
    try:
        times = []
        for _ in range(6):
            begin = time.perf_counter()
            rows = one()
            times.append(time.perf_counter() - begin)
        print(f"{name} one node: {rows} nodes; the first time {1e3 * times[0]:.0f} ms")
        print(f"figure\t{name}\tone node\t{1e3 * sorted(times[1:])[2]}", flush=True)
    except Exception as error:  # a rival that is absent or fails is said, not hidden
        print(f"{name} one node: failed: {str(error)[:200]}", flush=True)
