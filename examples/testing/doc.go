// Package clamp shows how a program tests a kernel of its own on a machine without a
// GPU: see clamp_test.go, and the README beside it.
package clamp
