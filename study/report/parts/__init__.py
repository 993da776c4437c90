"""Parts of the report's pages, one module for each subject."""
