package leastconn

import "time"

// horizon is for how many periods arrivals are expected. A period passes until the next
// observation; the second one covers the delays of observing and programming, and an
// increase that was not foreseen.
const horizon = 2

// A rate estimates arrivals per second.
type rate struct{ last, mean float64 }

// add adds an observation: so many arrivals in a time.
func (r *rate) add(arrivals float64, in time.Duration) {
	r.last = arrivals / in.Seconds()
	r.mean = (r.mean + r.last) / 2
}

// expected returns the arrivals to expect within the horizon. After a burst, more are expected for
// some periods: too high a number makes control slower, a low one makes it overshoot.
func (r *rate) expected(period time.Duration) float64 {
	return max(r.last, r.mean) * horizon * period.Seconds()
}
