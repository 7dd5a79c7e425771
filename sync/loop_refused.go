package sync

import (
	"slices"
	"syscall"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// refusals are the Service ports that the kernel would not take.
type refusals map[model.ServicePortName]*refusal

// refusal is one such Service port. It is either left out or on trial: in the
// next batch, and nobody's concern any more if the kernel takes that.
type refusal struct {
	errno syscall.Errno
	text  string
	out   bool
}

// convict leaves out the Service port that an error names. It reports whether that is news: the first
// time, or for another reason than the last time.
func (r refusals) convict(culprit *nft.Error) bool {
	known := r[culprit.Service]
	r[culprit.Service] = &refusal{errno: culprit.Errno, text: culprit.Error(), out: true}
	return known == nil || known.errno != culprit.Errno
}

// tryAll puts all on trial.
func (r refusals) tryAll() {
	for _, x := range r {
		x.out = false
	}
}

// tryChanged puts on trial whose frontends are not what was refused.
func (r refusals) tryChanged(changed []model.Frontend) {
	if len(r) == 0 {
		return
	}
	for i := range changed {
		if x := r[changed[i].Service]; x != nil {
			x.out = false
		}
	}
}

// acquit forgets those on trial, because the kernel took them, and names them.
func (r refusals) acquit() []string {
	var names []string
	for _, name := range r.trials() {
		delete(r, name)
		names = append(names, name.String())
	}
	slices.Sort(names)
	return names
}

// out reports whether a Service port is left out.
func (r refusals) out(name model.ServicePortName) bool { return r[name] != nil && r[name].out }

// notOut is the contrary of out.
func (r refusals) notOut(name model.ServicePortName) bool { return !r.out(name) }

// onTrial reports whether a Service port was refused and is tried again.
func (r refusals) onTrial(name model.ServicePortName) bool { return r[name] != nil && !r[name].out }

// trials names the Service ports that are tried again.
func (r refusals) trials() []model.ServicePortName {
	var names []model.ServicePortName
	for name, x := range r {
		if !x.out {
			names = append(names, name)
		}
	}
	return names
}

// withTrials adds to the change everything of the Service ports on trial: what
// did not change of them is not programmed either.
func (l *Loop) withTrials(c nft.Change) nft.Change {
	names := l.refused.trials()
	if len(names) == 0 {
		return c
	}
	onTrial := func(f model.Frontend) bool { return l.refused.onTrial(f.Service) }
	c.Set = slices.DeleteFunc(slices.Clone(c.Set), onTrial)
	for _, name := range names {
		for _, f := range l.state.services.FrontendsOf(name.ServiceName) {
			if f.Service == name {
				c.Set = append(c.Set, f)
			}
		}
	}
	return c
}

// admit turns frontends of Service ports that are left out into ones that are
// gone.
func (l *Loop) admit(c nft.Change) nft.Change {
	if len(l.refused) == 0 {
		return c
	}
	admitted := nft.Change{Gone: slices.Clip(c.Gone), ServiceCIDRs: c.ServiceCIDRs, NodeAddrs: c.NodeAddrs}
	for _, f := range c.Set {
		if l.refused.out(f.Service) {
			admitted.Gone = append(admitted.Gone, f.Match)
		} else {
			admitted.Set = append(admitted.Set, f)
		}
	}
	return admitted
}
