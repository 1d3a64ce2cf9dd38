package isolate

import "time"

// SetGonePatience changes how long a killed process may take to end, and returns what changes it back.
func SetGonePatience(d time.Duration) (back func()) {
	before := gonePatience
	gonePatience = d
	return func() { gonePatience = before }
}
