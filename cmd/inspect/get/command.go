package get

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NewCommand returns kube-vmap get. addSource adds the flags that choose a source, and
// returns it.
func NewCommand(addSource func(*pflag.FlagSet) Source) *cobra.Command {
	var o Options
	var source Source
	cmd := &cobra.Command{
		Use:   "get services|endpoints|frontends [NAME...]",
		Short: "Show what is programmed for Services, like kubectl get",
		Long: `Show what this node programs for Services, endpoints or frontends (the addresses and
ports that clients connect to), as the running kube-vmap reports it: run this on the
node, or in its pod. Without a running kube-vmap, the kernel's tables are shown.

` + Help(),
		Example: `  kube-vmap get svc -A
  kube-vmap get endpoints -n shop web -o wide
  kube-vmap get fe -A --field-selector spec.verdict!=Balance
  kube-vmap get fe -A 10.96.0.10`,
		ValidArgsFunction: Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Args = args
			return Run(cmd.Context(), o, source, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&o.Namespace, "namespace", "n", "default", "`namespace` of the Services")
	o.AddFlags(cmd)
	source = addSource(cmd.Flags())
	return cmd
}

// Help returns what the columns and names mean, and the fields.
func Help() string {
	return `  services   svc   ENDPOINTS: addresses that get connections / in EndpointSlices; one
                   that serves several ports counts once.
                   STATUS: OK, or the reason, as in kube-vmap problems; from the
                   kernel, which has no objects, Programmed instead of OK.
                   NoneLocal and OpenToAnyone may be intended, and are notices; any
                   other one is a problem (--field-selector severity=Problem, or
                   Notice). Each Service counts once, here and in top.
  endpoints  ep    REASON why one gets no connections: NotReady, Terminating,
                   Drained (weight 0), StandBy (others have a better priority),
                   NotLocal, OtherZones and OtherNodes (hints), NoPort, Duplicate,
                   NotProgrammed, Busy (lc: others have fewer active connections),
                   Gone (in no EndpointSlice, but with open connections), Avoided
                   (it is unresponsive). One that is used may be (unresponsive),
                   (possibly unresponsive), a terminating (fallback) or, with
                   --observe, one that (refuses) with a reset or is (silent).
                   With -o wide, FIELD is the field of an object that leads to the
                   REASON. SHARE is the part of new connections.
  frontends  fe    KIND: ClusterIP, NodePort, ExternalIP, LoadBalancerIP; from the
                   kernel, which does not distinguish the last two, External.
                   VERDICT: Balance, or Reject, Drop or Hold without an endpoint.

CONNECTIONS are the total so far, ACTIVE those that are open now (UDP: flows with
recent packets), FAST-PATH those of them whose packets pass no rules (--fast-path).
Headless and ExternalName Services need no proxy, and are not shown.

Endpoints and frontends are named by their Service or by their address, with or
without port and protocol: 10.96.0.10, 10.96.0.10:53, [fd00::a]:53/udp, *:30080.

Fields for --field-selector:

` + fieldsHelp()
}

// AddFlags adds the flags of the command except -n, which is kubectl's own in a plugin.
func (o *Options) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "show all namespaces")
	formats.AddFlag(cmd, &o.Output)
	f.BoolVar(&o.NoHeaders, "no-headers", false, "do not print column headers")
	f.DurationVar(&o.Observe, "observe", 0, "how long to observe first whether endpoints respond, at most 10s")
	f.StringVar(&o.SortBy, "sort-by", "", "sort by a `column`, numbers with the greatest first: ACTIVE")
	f.StringVar(&o.FieldSelector, "field-selector", "", "`selector` of fields: metadata.name=web,spec.kind!=NodePort")
}

func fieldsHelp() string {
	const columns, indent = 80, 13
	var b strings.Builder
	for _, r := range resources {
		line := fmt.Sprintf("  %-*s", indent-2, r.plural)
		for i, name := range r.fieldNames() {
			if i > 0 {
				line += ","
			}
			if len(line)+len(name)+2 > columns {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", indent)
			}
			line += " " + name
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Complete completes the resource.
func Complete(_ *cobra.Command, args []string, _ string) (out []string, d cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, r := range resources {
			out = append(out, r.plural)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
