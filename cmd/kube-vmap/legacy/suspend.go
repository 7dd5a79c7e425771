package legacy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kube-vmap/nft/kernel/kubeproxy"
)

// Found is what kube-proxy has in the legacy backend, as texts for a log such as
// "iptables-legacy nat: KUBE-SERVICES, KUBE-POSTROUTING".
type Found struct {
	// Awake are tables with chains that translate packets, Suspended those with chains that
	// [Suspend] suspended. A table may be in both.
	Awake, Suspended []string
	// Unknown are tables with chains of kube-proxy whose state is not known and which cannot
	// be changed, because iptables-legacy is not installed: "iptables-legacy nat filter". A
	// table that cannot be read is in it, with the reason in parentheses.
	Unknown []string
}

// Find reads what kube-proxy has in the calling thread's network namespace.
func Find(ctx context.Context) (Found, error) { return find(ctx, kernel) }

func find(ctx context.Context, from source) (f Found, err error) {
	_, f.Unknown, err = change(ctx, from, "look for kube-proxy's chains in", func(t *saved) ([]string, string) {
		f.Awake = t.appendNames(f.Awake, t.awake())
		f.Suspended = t.appendNames(f.Suspended, t.suspended())
		return nil, ""
	})
	return f, err
}

// appendNames appends the names of chains, if any, with their table.
func (t *saved) appendNames(list, chains []string) []string {
	if len(chains) == 0 {
		return list
	}
	return append(list, t.describe(strings.Join(chains, ", ")))
}

// Suspend has all of kube-proxy's chains that a hook leads to begin with a rule that
// returns, and returns what it suspended. It is an error if the programs for that are not
// installed; [Find] reports it before anything is changed.
func Suspend(ctx context.Context) (suspended []string, err error) {
	return suspend(ctx, kernel)
}

func suspend(ctx context.Context, from source) ([]string, error) {
	return changeKnown(ctx, from, "suspend kube-proxy's chains in", func(t *saved) ([]string, string) {
		var commands []string
		for _, chain := range t.awake() {
			commands = append(commands, fmt.Sprintf("-I %s 1 -m comment --comment %q -j RETURN", chain, kubeproxy.SuspendComment))
		}
		return commands, strings.Join(t.awake(), ", ")
	})
}

// Resume undoes [Suspend], and returns what it resumed.
func Resume(ctx context.Context) (resumed []string, err error) { return resume(ctx, kernel) }

func resume(ctx context.Context, from source) ([]string, error) {
	return changeKnown(ctx, from, "resume kube-proxy's chains in", func(t *saved) ([]string, string) {
		var commands []string
		for i := range t.Rules {
			if t.isSuspension(i) {
				commands = append(commands, t.deleteRule(i))
			}
		}
		return commands, strings.Join(t.suspended(), ", ")
	})
}

// changeKnown is change, where it is an error if a table cannot be read.
func changeKnown(ctx context.Context, from source, verb string, fn changer) ([]string, error) {
	done, unknown, err := change(ctx, from, verb, fn)
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("%s tables %q: iptables-legacy is not installed", verb, unknown)
	}
	return done, err
}

// awake returns kube-proxy's chains that have rules and are not suspended.
func (t *saved) awake() []string {
	suspended := t.suspended()
	return slices.DeleteFunc(t.hooked(func(int) bool { return true }), func(name string) bool {
		return slices.Contains(suspended, name)
	})
}

// suspended returns kube-proxy's chains with a rule of [Suspend].
func (t *saved) suspended() []string { return t.hooked(t.isSuspension) }

// hooked returns kube-proxy's chains that hooks lead to and that have such a rule.
func (t *saved) hooked(which func(rule int) bool) (names []string) {
	for i, r := range t.Rules {
		if kubeproxy.IsHooked(t.Name, r.Chain) && which(i) && !slices.Contains(names, r.Chain) {
			names = append(names, r.Chain)
		}
	}
	return names
}

// isSuspension reports whether a rule was added by [Suspend].
func (t *saved) isSuspension(rule int) bool {
	all := words(t.specs[rule])
	i := slices.Index(all, "--comment")
	return i >= 0 && i+1 < len(all) && all[i+1] == kubeproxy.SuspendComment && kubeproxy.IsHooked(t.Name, t.Rules[rule].Chain)
}
