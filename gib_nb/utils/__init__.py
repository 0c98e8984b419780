"""What every package needs: random numbers and threads, files, drawings, names."""
