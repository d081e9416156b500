"""May this object in?

`rules/` judges, purely; the server around it answers the API server's questions with that judgement.
"""
