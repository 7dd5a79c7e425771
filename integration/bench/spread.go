package main

import (
	"errors"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

const (
	spreadServers   = 3
	spreadQuestions = 30_000
	// chiSquareBound is what the statistic of an even spread over three stays
	// below 999 times in 1,000 (two degrees of freedom).
	chiSquareBound = 13.8
)

// spread asks a Service of three endpoints and counts who answers.
func (b *bench) spread() error {
	s := b.Section("Spread of 30,000 connections over 3 endpoints", "", "pod-1", "pod-2", "pod-3", "chi-square", "bound at 99.9 %")
	for _, f := range model.Families {
		if err := b.spreadOf(s, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) spreadOf(s *report.Section, f model.Family) (err error) {
	node, err := newLabNode(f, spreadServers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.close()) }()
	if err := node.program(size{10, 10}); err != nil {
		return err
	}
	tally, err := node.burst(node.clusterIP(), spreadQuestions, 2)
	if err != nil {
		return err
	}
	row := []any{nft.FamilyName(f) + ", tcp"}
	const even = float64(spreadQuestions) / spreadServers
	var chiSquare float64
	for _, pod := range node.server {
		n := tally.Answered[pod.Name]
		chiSquare += (float64(n) - even) * (float64(n) - even) / even
		row = append(row, n)
	}
	s.Add(append(row, chiSquare, chiSquareBound)...)
	b.Promise(chiSquare < chiSquareBound, "spread over 3 endpoints, %s: chi-square %s, below %s", nft.FamilyName(f), chiSquare, chiSquareBound)
	return nil
}
