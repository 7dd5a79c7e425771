package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// options are the flags. Those that kube-proxy has too keep its names and
// meanings.
type options struct {
	manifests        string
	hostnameOverride string
	clusterCIDR      string
	masqueradeAll    bool
	verbosity        int
	loggingFormat    string
}

// debugVerbosity is the -v from which batches are logged as text. kube-proxy
// logs its transactions at 9; here they are small.
const debugVerbosity = 4

// add defines the flags that shape the rule set.
func (o *options) add(flags *pflag.FlagSet) {
	flags.StringVar(&o.manifests, "manifests", "",
		"folder or file with Services, EndpointSlices, ServiceCIDRs and Nodes as YAML or JSON")
	flags.StringVar(&o.hostnameOverride, "hostname-override", "",
		"name of this node in nodeName, hints and the Node object (default the host's name in lower case)")
	flags.StringVar(&o.clusterCIDR, "cluster-cidr", "",
		"range that pods' addresses come from, one for each IP family, separated by a comma; "+
			"what comes to a ClusterIP from elsewhere is masqueraded; without it nothing is")
	flags.BoolVar(&o.masqueradeAll, "masquerade-all", false, "masquerade all traffic to ClusterIPs")
}

// addLogging defines the flags that only a running proxy has.
func (o *options) addLogging(flags *pflag.FlagSet) {
	flags.IntVarP(&o.verbosity, "v", "v", 2,
		fmt.Sprintf("log level: 0 errors and warnings, 1 to 3 each applied batch, %d and up its content", debugVerbosity))
	flags.StringVar(&o.loggingFormat, "logging-format", "text", `format of logs: "text" or "json"`)
}

// config checks the flags and fills in what they leave out.
func (o *options) config() (sync.Config, error) {
	c := sync.Config{
		NodeName:      nodeName(o.hostnameOverride),
		MasqueradeAll: o.masqueradeAll,
		Rules:         nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark},
	}
	var errs []error
	if o.manifests == "" {
		errs = append(errs, errors.New("--manifests: must name a folder or a file"))
	} else if _, err := os.Stat(o.manifests); err != nil {
		errs = append(errs, fmt.Errorf("--manifests: %w", err))
	}
	pods, err := podRanges(o.clusterCIDR)
	if err != nil {
		errs = append(errs, err)
	}
	c.Rules.Pods = pods
	if c.NodeName == "" {
		host, err := os.Hostname()
		if err != nil {
			errs = append(errs, fmt.Errorf("--hostname-override: not given, and %w", err))
		}
		c.NodeName = nodeName(host)
	}
	return c, errors.Join(errs...)
}

// nodeName is a host's name as Kubernetes writes it.
func nodeName(host string) string { return strings.ToLower(strings.TrimSpace(host)) }

// podRanges reads --cluster-cidr: at most one range of each family.
func podRanges(list string) ([len(model.Families)]netip.Prefix, error) {
	var pods [len(model.Families)]netip.Prefix
	if list == "" {
		return pods, nil
	}
	for s := range strings.SplitSeq(list, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			return pods, fmt.Errorf("--cluster-cidr: %q is not a range such as 10.244.0.0/16 or fd00:10:244::/56", s)
		}
		f := model.FamilyOf(p.Addr())
		if pods[f].IsValid() {
			return pods, fmt.Errorf("--cluster-cidr: %s and %s are both %s; give one range for each IP family", pods[f], p, f)
		}
		pods[f] = p.Masked()
	}
	return pods, nil
}

// logger makes the log that the flags ask for.
func (o *options) logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelWarn
	switch {
	case o.verbosity >= debugVerbosity:
		level = slog.LevelDebug
	case o.verbosity >= 1:
		level = slog.LevelInfo
	}
	h := &slog.HandlerOptions{Level: level}
	switch o.loggingFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, h)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, h)), nil
	}
	return nil, fmt.Errorf(`--logging-format: %q is neither "text" nor "json"`, o.loggingFormat)
}
