package sync

import (
	"slices"
	"syscall"

	"kube-vmap/model"
)

// refusals are the Service ports that the kernel would not take, by the name
// that errors give them.
type refusals map[string]*refusal

// refusal is one such Service port. It is either left out or on trial: in the
// next batch, and nobody's concern any more if the kernel takes that.
type refusal struct {
	errno syscall.Errno
	out   bool
}

// convict leaves out a Service port. It reports whether that is news: the first
// time, or for another reason than the last time.
func (r refusals) convict(name string, errno syscall.Errno) bool {
	known := r[name]
	r[name] = &refusal{errno: errno, out: true}
	return known == nil || known.errno != errno
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
		if x := r[changed[i].Service.String()]; x != nil {
			x.out = false
		}
	}
}

// acquit forgets those on trial, because the kernel took them, and names them.
func (r refusals) acquit() []string {
	var names []string
	for name, x := range r {
		if !x.out {
			names = append(names, name)
			delete(r, name)
		}
	}
	slices.Sort(names)
	return names
}

// out reports whether a Service port is left out.
func (r refusals) out(name string) bool { return r[name] != nil && r[name].out }

// notOut is the contrary of out.
func (r refusals) notOut(name string) bool { return !r.out(name) }

// onTrial reports whether a Service port was refused and is tried again.
func (r refusals) onTrial(name string) bool { return r[name] != nil && !r[name].out }

// anyOnTrial reports whether any is.
func (r refusals) anyOnTrial() bool {
	for _, x := range r {
		if !x.out {
			return true
		}
	}
	return false
}
