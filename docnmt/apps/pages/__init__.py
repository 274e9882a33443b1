"""Self-contained HTML pages, and the templates that all of them share."""
