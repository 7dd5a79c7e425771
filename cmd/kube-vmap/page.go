package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/explain"
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/page"
	"kube-vmap/cmd/inspect/page/live"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate/path"
)

// statusPage returns the handler of the status page, which shows this node until ctx ends; nil
// without --status-page.
func (p *proxy) statusPage(ctx context.Context, read nodestatus.Source) http.Handler {
	if !p.config.StatusPage {
		return nil
	}
	hosts := []string{p.loop.NodeName}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name)
	}
	node := live.NewOneNode(p.loop.NodeName, read)
	cluster := live.New(node)
	go cluster.Run(ctx)
	return page.Handler(page.Config{
		Cluster: cluster, Context: p.loop.NodeName, Alone: true, Path: "/status/", Hosts: page.Hosts{Names: hosts},
		Explain: func(ctx context.Context, q page.Question) (way any, err error) {
			turn := node.Paced(ctx, func() time.Duration {
				way, err = explainPacket(ctx, p.loop.NodeName, q, read)
				return 0
			})
			return way, cmp.Or(turn, err)
		},
	})
}

// errOfOthers hides what other programs do with a packet: anyone who reaches the metrics server
// may ask.
var errOfOthers = errors.New("a rule of another program decides; kube-vmap explain shows it on the node")

// explainPacket returns the path of a packet of a client, or of this node, by the rules of
// kube-vmap.
func explainPacket(ctx context.Context, node string, q page.Question, read nodestatus.Source) (any, error) {
	if q.From == "" {
		doc, err := read(ctx, nodestatus.Query{Name: "-", Brief: true})
		if err != nil {
			return nil, err
		}
		for _, a := range doc.NodeAddresses {
			if addr, err := netip.ParseAddr(a); err == nil && addr.Is6() == (strings.Contains(q.To, "[") || q.Family == "IPv6") {
				q.From = a
			}
		}
	}
	o := explain.Options{From: q.From, To: q.To, Namespace: "default", Output: "json"}
	a, err := explain.Run(ctx, o, read, io.Discard)
	switch {
	case err != nil:
		return nil, err
	case a.Service == "":
		return nil, errors.New("no Service has this address and port")
	}
	report, ok := reportOf(node, a)
	if !ok {
		return nil, errOfOthers
	}
	return report, nil
}

// report is what the node answers about a packet, as the page draws it.
type report struct {
	Node string `json:"node"`
	answer.Answer
}

// reportOf returns what becomes of a packet, with the steps in tables of kube-vmap; false if
// something in another table decides.
func reportOf(node string, a *answer.Answer) (*report, bool) {
	isOurs := func(table string) bool { return strings.HasSuffix(table, " "+nft.TableName) }
	isOthers := func(by path.RuleRef) bool { return by.Table != "" && !isOurs(by.Table) }
	for i := range a.Outcomes {
		if isOthers(a.Outcomes[i].By) || slices.ContainsFunc(a.Outcomes[i].Endpoints, func(e answer.Endpoint) bool {
			return e.Reply != nil && isOthers(e.Reply.By)
		}) {
			return nil, false
		}
	}
	return &report{node, answer.Answer{
		From: a.From, To: a.To, Protocol: a.Protocol, Service: a.Service, Kind: a.Kind,
		Arrives: a.Arrives, Outcomes: a.Outcomes,
		Steps: slices.DeleteFunc(slices.Clone(a.Steps), func(s path.Step) bool { return !isOurs(s.Table) }),
	}}, true
}
