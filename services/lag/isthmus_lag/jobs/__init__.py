"""The jobs: functions from DataFrames to a DataFrame, without a session, a clock or files."""
