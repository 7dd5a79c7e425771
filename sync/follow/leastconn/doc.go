// Package leastconn steers new connections to the endpoints with the fewest active ones,
// for Services with [model.SchedulerLeastConnections].
//
// nf_tables cannot compare two counters, so the decision is not made for each connection.
// Once a second, connection tracking is read and the slots of each pool are shared out
// accordingly; the kernel picks one of them at random:
//
//	         +---------- at least a second, 70 times the work of an observation ----------+
//	         v                                                                            |
//	connection tracking --> active and new connections --> law --> shares --> sync.Loop --+
//	 (translated entries)         by endpoint            (law.go)  [model.PoolShares]
//	                                  ^
//	            sync.Loop --Follow----+ pools, endpoints, weights
//
// # The law
//
// Let A be the active connections of an endpoint, w its weight, and R the arrivals that
// are expected for the pool within two periods. Poured like water onto the endpoints, R
// connections would fill them up to a level L:
//
//	sum of max(0, w L - A) = R
//
// An endpoint's share is in proportion to max(0, w L - A), at most four times its fair one. R is
// twice the arrivals of one period: one period then fills half of what is missing.
//
// # Why it does not oscillate
//
// Let a be how far an endpoint is above the mean, q the part of its connections that survives a
// period, and f the part of the connections that arrive in a period and are there at its end; q <=
// f <= 1. While no share is zero, the endpoint gets a/R of the arrivals less than its fair share.
// These are f a/2 connections less after a period, and a becomes (q - f/2) a: between -a/2 and a/2,
// whatever the lifetime of connections. If shares take effect a whole period late, then z² - q z +
// f/2 = 0, whose solutions have the magnitude sqrt(f/2), at most 0.71. A share that is cut off at
// zero or at its limit corrects less. Only more than R arrivals in one period overshoot the level.
// So arrivals are counted, closed connections included, and not derived from the active ones; and
// after a burst more are expected for some periods.
//
// While more shares must change than a transaction takes, the shares of a pool stay in
// effect from one of its turns to the next. That time is then the period of the above:
// arrivals are expected for twice as long as the pool has waited. They may be up to twice as
// many without any lasting oscillation.
//
// # Cost
//
// An observation costs the kernel and this process in proportion to the translated entries, about
// 2 µs each; the pause after it, 70 times its processor time, keeps that below two percent of one
// processor. It causes at most one event for the loop, of 2,048 slots at most, which namespaces
// share (leastconn.go). Pools whose endpoints are near their level have the shares of their weights,
// as if the scheduler was random, and cost nothing. Without any such pool nothing is read.
package leastconn
