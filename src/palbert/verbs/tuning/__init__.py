"""Tuning: the search for better settings of a recipe.

`check` tries the space before anything is trained; `search` keeps the trials in Optuna's journal; `trials` trains one,
and `runners` several at a time, with the processes of `worker`; `confirm` trains the best recipe again; `summary` is
what tune.json and the report show.
"""
