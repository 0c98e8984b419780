"""Reports: measures, tables, figures, and pages of trained models."""
