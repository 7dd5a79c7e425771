package nft

import (
	"cmp"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A ChainKind is one of the kinds of chains of the rule set.
type ChainKind uint8

// The kinds of chains, in declaration order. Every table has the kinds up to ChainReject;
// the others exist while something refers to them.
const (
	ChainNATPrerouting ChainKind = iota
	ChainNATOutput
	ChainRestorePrerouting
	ChainRestoreOutput
	ChainFilterInput
	ChainFilterForward
	ChainFilterOutput
	ChainNATPostrouting
	ChainSourceCheck
	ChainDispatch
	ChainRestoreCheck
	ChainLoopCheck
	ChainRestore
	ChainServiceCheck
	ChainSourcePort // source-port: masquerades, with a source port by protocol
	ChainReject
	ChainEndpoint       // ep-K: translates to the endpoint in slot K
	ChainRetry          // retry: drops refusals of endpoints, to be retried; notes who accepts
	ChainAccepted       // accepted: translates a retry to an endpoint that has just accepted
	ChainNodePortCheck  // source-check-node-ports: drops sources that may not use a node port
	ChainHold           // hold: records who waits for an endpoint, and drops
	ChainStickyEndpoint // sticky-endpoint: translates to the endpoint whose number the packet has
	ChainStickyClient   // sticky-client: looks up the number that is remembered for the client
	ChainStickyNew      // sticky-new: the same for a client that has just been remembered, then goes to sticky-endpoint
	ChainCount          // count: counts connections, with [Config].CountConnections
	ChainRewrite        // rewrite: makes the ClusterIP the destination, and returns
	ChainStickyPick     // sticky-pick-N: picks the number of one of at most N slots at random
	ChainStickyFull     // sticky-full-N: the same by the client's address, if it cannot be remembered
	ChainBalance        // lb-N: picks one of N slots
	ChainCluster        // cluster-N: marks packets that are not from pods for masquerade, then balances
	ChainMasquerade     // masquerade-N: marks everything for masquerade, then balances
	ChainService        // service-N: jumps to rewrite, then balances
	ChainExternal       // external-N: marks everything for masquerade, then goes to service-N
	ChainExternalLocal  // external-local-N: for pods and the node as ChainExternal, for others local endpoints only
	ChainNATInput       // nat-input: sends connections to endpoints that are this node to count
	// The chains before translation, for source ranges, retries and [Config].DropInvalid.
	ChainFilterPrerouting
	ChainFilterOutputEarly
	chainKinds
	ChainUnknown
)

// MaxSlots is the highest number of endpoints that are spread over slots, each once or as
// often as its weight needs, and the number of slots that can exist. A Service that needs
// more has all its endpoints in one map: the kernel finds maps by walking a list, which
// must not have thousands. Kubernetes itself supports 250. A smaller number also needs a
// smaller [model.MaglevTableSize], and a way to adopt tables with the old slots.
const MaxSlots = model.MaxSlots

// The table of Maglev must fit into the slots.
const _ = uint(MaxSlots - maglevSize)

// A method is how a chain picks an endpoint. A scheduler that [model.Pool.PicksOneOf] returns needs
// a method here, and its expression in [pick]; the tests of pick.go go through all schedulers.
type method uint8

const (
	pickRandom method = iota
	pickRoundRobin
	pickSourceHash
	pickMaglev
	pickSticky // at random, but a remembered client gets the same one again
	// The same as the first four, but connections that were refused go to an endpoint that has just
	// accepted, or else, with a hash, to a random one.
	pickRandomRetry
	pickRoundRobinRetry
	pickSourceHashRetry
	pickMaglevRetry
	methods
)

// once is the method for connections that were not refused.
func (m method) once() method {
	if m >= pickRandomRetry {
		return m - pickRandomRetry
	}
	return m
}

// methodSchema has the name of the balancing chains of each method, and the scheduler that
// it implements.
var methodSchema = [methods]struct {
	name      string
	scheduler model.Scheduler
}{
	pickRandom:     {"lb", model.SchedulerRandom},
	pickRoundRobin: {"rr", model.SchedulerRoundRobin},
	pickSourceHash: {"sh", model.SchedulerSourceHash},
	pickMaglev:     {"maglev", model.SchedulerMaglev},
	pickSticky:     {"sticky", model.SchedulerRandom},

	pickRandomRetry:     {"lb-retry", model.SchedulerRandom},
	pickRoundRobinRetry: {"rr-retry", model.SchedulerRoundRobin},
	pickSourceHashRetry: {"sh-retry", model.SchedulerSourceHash},
	pickMaglevRetry:     {"maglev-retry", model.SchedulerMaglev},
}

// A hook is where and when a base chain sees packets.
type hook struct {
	chainType string
	number    uint32
	name      string
	priority  int32
	// priorityName is how nft lists the priority.
	priorityName string
}

// hooks are the hooks of base chains, nil for other kinds. Hooks and priorities are the same as
// in kube-proxy: other components of a cluster rely on translation at dstnat and srcnat, and on
// rejection at filter. Only the chains that translate destinations have a priority lower by
// one. All chains of type nat are called at dstnat, in the order of their priorities
// (nf_nat_register_fn), so this only makes ours the first of them. With equal priorities, the
// first would be the one that was added last, such as the chain of a kube-proxy that runs again
// for a while.
var hooks = [chainKinds]*hook{
	ChainFilterPrerouting:  {"filter", unix.NF_INET_PRE_ROUTING, "prerouting", -110, "dstnat - 10"},
	ChainFilterOutputEarly: {"filter", unix.NF_INET_LOCAL_OUT, "output", -110, "-110"},
	ChainNATPrerouting:     {"nat", unix.NF_INET_PRE_ROUTING, "prerouting", -101, "dstnat - 1"},
	ChainNATOutput:         {"nat", unix.NF_INET_LOCAL_OUT, "output", -101, "-101"},
	ChainRestorePrerouting: {"filter", unix.NF_INET_PRE_ROUTING, "prerouting", -99, "dstnat + 1"},
	ChainRestoreOutput:     {"filter", unix.NF_INET_LOCAL_OUT, "output", -99, "-99"},
	ChainFilterInput:       {"filter", unix.NF_INET_LOCAL_IN, "input", 0, "filter"},
	ChainFilterForward:     {"filter", unix.NF_INET_FORWARD, "forward", 0, "filter"},
	ChainFilterOutput:      {"filter", unix.NF_INET_LOCAL_OUT, "output", 0, "filter"},
	ChainNATPostrouting:    {"nat", unix.NF_INET_POST_ROUTING, "postrouting", 100, "srcnat"},
	ChainNATInput:          {"nat", unix.NF_INET_LOCAL_IN, "input", 100, "100"},
}

// hook returns the hook of a base chain; nil for other kinds. Next to the node's own proxy, one with a
// name translates what that has not: no Service of it takes the ClusterIP of another. But it filters
// first, because the other drops what is sent to unused addresses of ServiceCIDRs.
func (k ChainKind) hook() *hook {
	h := hooks[k]
	if h == nil || model.ProxyName() == "" {
		return h
	}
	named := *h
	switch k {
	case ChainNATPrerouting:
		named.priority, named.priorityName = -99, "dstnat + 1"
	case ChainNATOutput:
		named.priority, named.priorityName = -99, "-99"
	case ChainFilterInput, ChainFilterForward, ChainFilterOutput:
		named.priority, named.priorityName = -1, "filter - 1"
	}
	return &named
}

// chainSchema has the name and the meaning of each kind.
var chainSchema = [chainKinds]struct {
	name  string
	means Meaning
}{
	ChainFilterPrerouting:  {"filter-prerouting", MeansDropsInvalid},
	ChainFilterOutputEarly: {"filter-output-early", MeansChecksSource},
	ChainNATPrerouting:     {"nat-prerouting", MeansFindsService},
	ChainNATOutput:         {"nat-output", MeansFindsService},
	ChainRestorePrerouting: {"restore-prerouting", MeansRestores},
	ChainRestoreOutput:     {"restore-output", MeansRestores},
	ChainFilterInput:       {"filter-input", MeansChecksService},
	ChainFilterForward:     {"filter-forward", MeansChecksService},
	ChainFilterOutput:      {"filter-output", MeansChecksService},
	ChainNATPostrouting:    {"nat-postrouting", MeansMasquerades},
	ChainSourceCheck:       {"source-check", MeansChecksSource},
	ChainDispatch:          {"dispatch", MeansFindsService},
	ChainRestoreCheck:      {"restore-check", MeansRestores},
	ChainLoopCheck:         {"loop-check", MeansRestores},
	ChainRestore:           {"restore", MeansRestores},
	ChainServiceCheck:      {"service-check", MeansChecksService},
	ChainSourcePort:        {"source-port", MeansMasquerades},
	ChainReject:            {"reject-chain", MeansRejects},
	ChainEndpoint:          {"ep", MeansTranslates},
	ChainRetry:             {"retry", MeansRetries},
	ChainAccepted:          {"accepted", MeansTranslates},
	ChainNodePortCheck:     {"source-check-node-ports", MeansChecksSource},
	ChainHold:              {"hold", MeansHolds},
	ChainStickyEndpoint:    {"sticky-endpoint", MeansTranslates},
	ChainStickyClient:      {"sticky-client", MeansRemembers},
	ChainStickyNew:         {"sticky-new", MeansRemembers},
	ChainCount:             {"count", MeansCounts},
	ChainRewrite:           {"rewrite", MeansGetsClusterIP},
	ChainStickyPick:        {"sticky-pick", MeansPicks},
	ChainStickyFull:        {"sticky-full", MeansPicks},
	ChainBalance:           {"", MeansPicks}, // named after the method
	ChainCluster:           {"cluster", MeansMarks},
	ChainMasquerade:        {"masquerade", MeansMarks},
	ChainService:           {"service", MeansGetsClusterIP},
	ChainExternal:          {"external", MeansMarks},
	ChainExternalLocal:     {"external-local", MeansAppliesPolicy},
	ChainNATInput:          {"nat-input", MeansCounts},
}

// baseChains is the number of kinds that every table has.
const baseChains = ChainReject + 1

// A ChainID refers to a chain of the rule set. Fields that do not apply to its kind are
// zero.
type ChainID struct {
	Family model.Family
	Kind   ChainKind
	// Local means that the chain picks among endpoints of this node only, NodePort that
	// node ports jump to it.
	Local, NodePort bool
	Method          method
	// N is the slot, or the number of slots: with pickSticky its [slotClass].
	N uint32
	// Seconds is how long clients are remembered, if Method is pickSticky.
	Seconds uint32
}

func compareChains(a, b ChainID) int {
	if a == b {
		return 0
	}
	return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Kind, b.Kind), compareBool(a.Local, b.Local),
		compareBool(a.NodePort, b.NodePort), cmp.Compare(a.Method, b.Method), cmp.Compare(a.N, b.N),
		cmp.Compare(a.Seconds, b.Seconds))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
