"""The trace: a folder of Parquet tables and safetensors that a run writes as it goes and every viewer reads."""

from sfi_lab.trace.reader import Trace
from sfi_lab.trace.recorder import Recorder
from sfi_lab.trace.request import RecordRequest
from sfi_lab.trace.schema import SCHEMA_VERSION, TABLES

__all__ = ["SCHEMA_VERSION", "TABLES", "RecordRequest", "Recorder", "Trace"]
