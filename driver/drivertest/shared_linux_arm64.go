package drivertest

const memfdCreate = 279 // the number of the call of Linux
