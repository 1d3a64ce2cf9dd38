module baseline

go 1.26.0
