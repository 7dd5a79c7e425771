package convert

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// annotationScheduler names the scheduler of a Service, as [ParseScheduler] reads
// it.
const annotationScheduler = "kube-vmap.io/scheduler"

// Why a scheduler of IPVS is none here.
var (
	errNoCounts  = errors.New("random is used in its place, since nftables does not know how many connections an endpoint has")
	errNoWeights = errors.New("random is used in its place, since the endpoints of a Service have no weights")
	errOneForAll = errors.New("random is used in its place, since this one would send every client of a Service to the same endpoint")
	errUnknown   = errors.New("there is no such scheduler, so that the default is used; there are random, rr, sh and mh")
)

// ParseScheduler reads the name of a scheduler: random, or one of those of IPVS
// (net/netfilter/ipvs, man ipvsadm). Kubernetes gives all endpoints the same
// weight, so that the weighted one of two is the other. The error says why the
// result is not what the name asks for; it is then [model.SchedulerRandom], or
// [model.SchedulerDefault] for a name that nobody knows, and for none.
func ParseScheduler(name string) (model.Scheduler, error) {
	switch name {
	case "":
		return model.SchedulerDefault, nil
	case "random":
		return model.SchedulerRandom, nil
	case "rr", "wrr":
		return model.SchedulerRoundRobin, nil
	case "sh":
		return model.SchedulerSourceHash, nil
	case "mh":
		return model.SchedulerMaglev, nil
	case "lc", "wlc", "lblc", "lblcr", "sed", "nq", "ovf", "twos":
		return model.SchedulerRandom, errNoCounts
	case "fo":
		return model.SchedulerRandom, errNoWeights
	case "dh":
		return model.SchedulerRandom, errOneForAll
	}
	return model.SchedulerDefault, errUnknown
}

// scheduler is what the Service's annotation asks for.
func (f *findings) scheduler(annotations map[string]string) model.Scheduler {
	name := annotations[annotationScheduler]
	s, err := ParseScheduler(name)
	if err != nil {
		path := field.NewPath("metadata", "annotations").Key(annotationScheduler)
		f.leaveOut(field.Invalid(path, name, err.Error()))
	}
	return s
}

// maxTables is how many ports, in all families, of a Service with the annotation
// may have a table of [model.SchedulerMaglev]: a table has hundreds of elements.
const maxTables = 50

// limitTables has a Service spread at random whose tables would take too much of
// every node.
func (f *findings) limitTables(s *model.Service) {
	if n := len(s.Ports) * len(s.ClusterIPs); s.Scheduler == model.SchedulerMaglev && n > maxTables {
		s.Scheduler = model.SchedulerRandom
		path := field.NewPath("metadata", "annotations").Key(annotationScheduler)
		f.leaveOut(field.TooMany(path, n, maxTables))
	}
}
