package refs

// Retain makes another reference to the same elements, which has to be closed as well: for
// those who keep memory without knowing its type.
func (c *Core) Retain() *Core {
	other := new(Core)
	other.retain(c)
	return other
}

// Close ends the reference; see [Ref.Close].
func (c *Core) Close() error { return c.close() }
