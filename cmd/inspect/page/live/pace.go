package live

import "time"

const (
	// minPeriod is the shortest time from one question to a node to the next.
	minPeriod = 5 * time.Second
	// nodeInterval times the number of nodes is how long a round takes at least: the API
	// server, which forwards all requests, gets at most 20 of them per second.
	nodeInterval = 50 * time.Millisecond
	// tookFactor times the duration of its last answer is how long a node is not asked, after
	// the second answer: it works at most a fiftieth of the time.
	tookFactor = 50
	// maxLines is how many Services of nodes arrive per second, on average. Each has some
	// 80 bytes.
	maxLines = 25_000
	// maxInFlight is how many nodes are asked at a time.
	maxInFlight = 64
	// findingsFactor is after how many tallies the findings of a node are read again.
	findingsFactor = 6
	// listPeriod is the time from one list of nodes to the next.
	listPeriod = time.Minute
	// cataloguePeriod is the same for the list of all Services.
	cataloguePeriod = 20 * time.Second
	// maxBackoff is how long a node that does not answer is left alone at most.
	maxBackoff = 2 * time.Minute
	// attention is how long nodes are asked after the last look.
	attention = 30 * time.Second
	// tick is how often to look for nodes whose turn it is.
	tick = 100 * time.Millisecond
)

// period returns the time from one question to a node to the next.
func (c *Cluster) period(n *node) time.Duration {
	if n.tallies == 1 && n.failures == 0 {
		return max(minPeriod, n.took) // two tallies make a rate, for which a viewer waits
	}
	p := max(minPeriod, c.round(), tookFactor*n.took)
	if n.failures > 0 {
		return max(min(p<<min(n.failures, 10), maxBackoff), c.round())
	}
	return p
}

// round returns how long it takes at least to ask every node once.
func (c *Cluster) round() time.Duration {
	lines := 0
	for _, n := range c.nodes {
		lines += len(n.lines)
	}
	return max(time.Duration(len(c.nodes))*nodeInterval, time.Duration(lines)*time.Second/maxLines)
}
