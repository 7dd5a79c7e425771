package main

import (
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	interval = 5 * time.Millisecond // between the beginnings of two connections
	before   = 5 * time.Second      // the fault
	timeout  = 2 * time.Second      // of a client
)

// attempt is one connection.
type attempt struct {
	way   int           // the client, the Service and the family: one endpoint of node-3
	began time.Duration // after the fault; negative is before it
	late  time.Duration // how long after it was due
	// connected is whether the handshake was completed, answered whether there was an answer.
	connected, answered bool
}

// load opens connections, has the fault happen meanwhile, and returns those since then.
func (r *rig) load(o *options) ([]attempt, error) {
	first := int(before / interval)
	all := make([]attempt, first+int(o.duration/interval))
	zero := time.Now().Add(before)
	var group errgroup.Group
	for i := range all {
		if i == first {
			if err := faults[o.fault](r); err != nil {
				return nil, err
			}
			zero = time.Now()
		}
		fault, due := zero, time.Duration(i-first)*interval
		select {
		case <-time.After(time.Until(fault.Add(due))):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		began := time.Since(fault)
		group.Go(func() (err error) {
			all[i], err = r.connect(i)
			all[i].began, all[i].late = began, began-due
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, a := range all[:first] {
		if !a.answered && a.began < -timeout {
			return nil, fmt.Errorf("a connection failed that began %s before the fault", -a.began)
		}
	}
	return all[first:], nil
}

// connect opens the i-th connection: by turns over each family, from each client, to each Service.
func (r *rig) connect(i int) (attempt, error) {
	ways := traffic.Over(model.TCP)
	a := attempt{way: i % (len(ways) * len(r.clients) * len(r.targets))}
	w, i := ways[i%len(ways)], i/len(ways)
	c, i := r.clients[i%len(r.clients)], i/len(r.clients)
	target := r.targets[i%len(r.targets)]
	answer, err := c.AskWithin(w, target.At(w.Family), timeout)
	a.connected, a.answered = answer.Local.IsValid(), answer.Outcome == lab.Answered
	return a, err
}

// header is the head of a table. The second pair of failures is part of the first.
const header = "proxy       connections  failed  percent  last began  without handshake  last began  " +
	"of one endpoint  late by up to"

// row returns a line of the table.
func row(proxy string, all []attempt) string {
	var failed, unconnected int
	var lastFailed, lastUnconnected, longest, late time.Duration
	first := map[int]time.Duration{} // failed handshake of a way
	for _, a := range all {
		late = max(late, a.late)
		if !a.answered {
			failed, lastFailed = failed+1, max(lastFailed, a.began)
		}
		if !a.connected {
			unconnected, lastUnconnected = unconnected+1, max(lastUnconnected, a.began)
			if _, failedBefore := first[a.way]; !failedBefore {
				first[a.way] = a.began
			}
			longest = max(longest, a.began-first[a.way])
		}
	}
	return fmt.Sprintf("%-10s  %11d  %6d  %7.2f  %8.1f s  %17d  %8.1f s  %13.1f s  %11.1f s", proxy, len(all),
		failed, 100*float64(failed)/float64(len(all)), lastFailed.Seconds(),
		unconnected, lastUnconnected.Seconds(), longest.Seconds(), late.Seconds())
}
