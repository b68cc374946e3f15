"""Interior-point solvers: leximin rounds and concave welfares."""
