"""What is asked of the samples: each job is a function from DataFrames to a DataFrame, without a session, a clock or files."""
