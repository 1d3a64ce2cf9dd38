package drivertest

// connection is a queue of the hardware that streams share, and that work leaves in order.
type connection struct {
	begun chan struct{} // closed when the latest work has begun
}

// connect returns the connection of a new stream, or nil for one of its own.
func (ctx *context) connect() *connection {
	if len(ctx.shared) == 0 {
		return nil
	}
	ctx.taken++
	return ctx.shared[(ctx.taken-1)%len(ctx.shared)]
}

// join puts an operation at the end of the queue.
func (c *connection) join(o *operation) {
	if c == nil {
		return
	}
	o.before = c.begun
	if !o.aside {
		o.begun = make(chan struct{})
		c.begun = o.begun
	}
}

// clear tells that all work on the connection has begun.
func (c *connection) clear() bool {
	if c == nil {
		return true
	}
	select {
	case <-c.begun:
		return true
	default:
		return false
	}
}

// begin waits until the operation is at the head of its connection, and lets the next one
// follow.
func (o *operation) begin() {
	if o.before != nil {
		<-o.before
	}
	if o.until != nil {
		o.until()
	}
	if o.begun != nil {
		close(o.begun)
	}
}
