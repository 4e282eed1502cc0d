"""From a host and a request to an environment: candidates, rules, ranking, the decision and its reasons."""
