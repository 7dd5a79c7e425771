package main

import (
	"errors"
	"fmt"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/masquerade"
	"kube-vmap/model"
)

// simultaneous measures how often two connections get the same source port if they begin in the
// same instant from the same port, of two clients: connection tracking drops the packet that
// comes second. It takes two processors.
func (b *bench) simultaneous() error {
	for _, f := range b.families() {
		s := b.Section("Two clients connect from the same port in the same instant, over "+familyText(f),
			"", "", "connections", "lost", "lost per million", "insert_failed", "clashres", "drop")
		s.Note("lost: a SYN that is sent again, a datagram without an answer, an INIT without an answer")
		for _, p := range model.Protocols {
			for _, way := range masqueradeWays[1:3] {
				if err := b.raced(s, f, p, way); err != nil {
					return fmt.Errorf("%s, %s: %w", p, way, err)
				}
			}
		}
	}
	return nil
}

func (b *bench) raced(s *report.Section, f model.Family, p model.Protocol, way string) (err error) {
	l, err := lab.New(lab.Options{Pods: 3})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	pod := l.Pods[0].Host
	var stop interface{ Close() error }
	if p == model.TCP {
		stop, err = masquerade.Serve(pod, f)
	} else {
		stop, err = pod.ServeAt(p, pod.AddrPort(f, masquerade.Port))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop.Close()) }()
	to, err := forwardBy(l, f, way)
	if err != nil {
		return err
	}
	var out masquerade.Outcome
	grown, err := growth([]*lab.Host{l.Node.Host}, func() (err error) {
		hosts := [2]*lab.Host{l.Pods[1].Host, l.Pods[2].Host}
		out, err = masquerade.Race{Hosts: hosts, Protocol: p, To: to, Until: time.Now().Add(b.race)}.Run()
		return err
	})
	if err != nil {
		return err
	}
	s.Add(p.String(), wayText(way), out.Connections, out.Lost, float64(out.Lost)*1e6/float64(max(out.Connections, 1)),
		grown["insert_failed"], grown["clashres"], grown["drop"])
	return nil
}
