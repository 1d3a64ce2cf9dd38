package cusolver

// TurnedFrom is turnedFrom for tests.
var TurnedFrom = &turnedFrom
