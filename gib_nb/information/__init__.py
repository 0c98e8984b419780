"""Mutual information: exact for tables and channels, estimated by a critic for samples."""
