package proxy

import (
	"time"
)

const (
	// patience is for what must come, and is never used up.
	patience = 20 * time.Second
	// answer is the same for an answer: packets do not wait for anything.
	answer = 5 * time.Second
	// soon is what a refusal must come within: far from any retransmission.
	soon = 200 * time.Millisecond
	// silence is how long to wait for what must not come.
	silence = 120 * time.Millisecond
	// again is how often to look for what must come.
	again = 3 * time.Millisecond
)
