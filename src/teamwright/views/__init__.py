"""Read-only views: status, logs, cost, audit, doctor and bug reports. Nothing is locked or changed."""
