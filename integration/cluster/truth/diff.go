package truth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/looptest"
)

// PodRanges hold the pods of all nodes of a lab, as flags say it.
const PodRanges = "10.244.0.0/16,fd00:10:244::/48"

// Config returns the configuration of a proxy on the node with --cluster-cidr=PodRanges and
// no other flags.
func Config(node string) sync.Config {
	c := sync.Config{
		NodeName:  node,
		Rules:     nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, CountConnections: true, PassiveHealth: true},
		NodePorts: sync.NodePortAddresses{Primary: true}, AnswerPings: true,
	}
	for i, p := range strings.Split(PodRanges, ",") {
		c.Rules.Pods[model.Families[i]] = netip.MustParsePrefix(p)
	}
	return c
}

// Truth compares a node's rule set with the one for the objects in the API.
type Truth struct {
	// Client may list everything.
	Client kubernetes.Interface
	// Config is the proxy's configuration.
	Config sync.Config
	// Host is the node.
	Host *lab.Host
}

// Diff returns how the tables in the node's kernel differ from the expected ones, as lines
// with - for what is missing and + for what is too much; empty if they do not.
func (t *Truth) Diff(ctx context.Context) (string, error) {
	events, err := Events(ctx, t.Client, t.Config.NodeName)
	if err != nil {
		return "", err
	}
	have, err := Read(t.Host)
	if err != nil {
		return "", err
	}
	rules, _ := sync.Build(t.Config, events)
	want := rules.Tables()
	if err := t.serveNodePorts(want, events); err != nil {
		return "", err
	}
	return cmp.Diff(strings.Split(looptest.Summary(want), "\n"), strings.Split(looptest.Summary(have), "\n")), nil
}

// Await waits until there is no difference. The error, after ctx ended, has the last
// difference, or why there was none: a kernel whose rules change all the time cannot be
// read.
func (t *Truth) Await(ctx context.Context) error {
	err := eventually.Try(ctx, func() error {
		diff, err := t.Diff(context.WithoutCancel(ctx))
		if err == nil && diff != "" {
			err = errors.New(diff)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("the rules of %s are not the expected ones; - is missing, + is too much: %w", t.Host, err)
	}
	return nil
}

// Read returns the tables of kube-vmap in a host's kernel.
func Read(h *lab.Host) (_ nft.Tables, err error) {
	k, err := kernel.Open(kernel.Config{NetNS: h.FD()})
	if err != nil {
		return nft.Tables{}, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return k.Read()
}
