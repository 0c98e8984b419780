"""Information of tables and channels exactly, and of samples by a critic."""
