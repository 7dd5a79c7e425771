package traffic

// Failing returns over how many ways of clients a request failed.
func (c *Crowd) Failing() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.failing)
}
