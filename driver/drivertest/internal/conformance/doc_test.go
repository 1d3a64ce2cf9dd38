// Package conformance is one suite of tests for every implementation of [driver.API]: the simulated driver, the real one, and the
// simulated one behind C function pointers. It relies only on what real hardware does as well.
package conformance
