package nodes

import "time"

// maxBackoff is how long a node that does not answer is left alone at most.
const maxBackoff = 2 * time.Minute

// Backoff returns the time until a node that does not answer is asked again: twice the period
// of others after the first failure, and longer after each further one.
func Backoff(period time.Duration, failures int) time.Duration {
	for range min(failures, 10) {
		period *= 2
	}
	return min(period, maxBackoff)
}
