package drivertest

const memfdCreate = 319 // the number of the call of Linux
