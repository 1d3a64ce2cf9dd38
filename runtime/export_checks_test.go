package runtime

// Reports is how many reports of kernels a context has in use.
func Reports(c *Context) int {
	t := c.memory.Load().checks
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.live)
}

// Written is how many reports of a stream a kernel has written.
func Written(s *Stream) (n int) {
	for _, w := range s.checks.watched() {
		if w.memory.Written() {
			n++
		}
	}
	return n
}
