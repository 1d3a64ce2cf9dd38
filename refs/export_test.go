package refs

import "github.com/purecuda/purecuda/arena"

// LastWriteStream is the stream that wrote last, at first the one that the memory was allocated on; nil if there is none.
func (c *Core) LastWriteStream() *arena.Stream {
	if c == nil || c.handle == nil {
		return nil
	}
	return c.handle.memory.writer.Load()
}
