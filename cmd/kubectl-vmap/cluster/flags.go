package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"kube-vmap/model"
)

// Flags are kubectl's flags for a cluster, and those for kube-vmap in it.
type Flags struct {
	clientcmd.ClientConfig // by the flags and the kubeconfig

	rules       *clientcmd.ClientConfigLoadingRules
	overrides   *clientcmd.ConfigOverrides
	namespace   string // of kube-vmap's pods
	proxyName   string
	timeout     time.Duration
	concurrency int
}

// NewFlags returns flags with kubectl's defaults.
func NewFlags() *Flags {
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	return &Flags{
		ClientConfig: clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides),
		rules:        rules, overrides: overrides,
	}
}

// AddFlags adds the flags.
func (f *Flags) AddFlags(to *pflag.FlagSet) {
	to.StringVar(&f.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file to use for CLI requests.")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username.LongName = "" // kubectl does not have these
	names.AuthOverrideFlags.Password.LongName = ""
	clientcmd.BindOverrideFlags(f.overrides, to, names)
	to.Func("as-user-extra", "User extras (`key=value`) to impersonate for the operation, can be repeated.",
		func(text string) error {
			key, value, ok := strings.Cut(text, "=")
			if !ok {
				return fmt.Errorf("%q is not KEY=VALUE", text)
			}
			if f.overrides.AuthInfo.ImpersonateUserExtra == nil {
				f.overrides.AuthInfo.ImpersonateUserExtra = map[string][]string{}
			}
			f.overrides.AuthInfo.ImpersonateUserExtra[key] = append(f.overrides.AuthInfo.ImpersonateUserExtra[key], value)
			return nil
		})
	to.StringVar(&f.namespace, "proxy-namespace", DefaultNamespace, "`namespace` of kube-vmap's pods")
	to.StringVar(&f.proxyName, "service-proxy-name", "",
		"`name` of the kube-vmap to ask: of its flag with this name, and after kube-vmap. in the label of its pods")
	to.DurationVar(&f.timeout, "node-timeout", 10*time.Second,
		"how long a node may be silent until it counts as not answering")
	to.IntVar(&f.concurrency, "node-concurrency", 64, "`number` of nodes to ask at a time")
}

// Cluster returns the cluster that the flags and the kubeconfig choose.
func (f *Flags) Cluster() (*Cluster, error) {
	model.SetProxyName(f.proxyName)
	config, err := f.ClientConfig.ClientConfig()
	if err != nil {
		return nil, err
	}
	return New(Config{REST: config, Namespace: f.namespace, Timeout: f.timeout, Concurrency: f.concurrency})
}

// CurrentNamespace returns the namespace of -n or of the kubeconfig's context.
func (f *Flags) CurrentNamespace() (string, error) {
	namespace, _, err := f.Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace: %w", err)
	}
	return namespace, nil
}

// Context returns the name of the context of the flags or the kubeconfig; empty if there is none.
func (f *Flags) Context() string {
	config, err := f.RawConfig()
	if err != nil || f.overrides.CurrentContext != "" {
		return f.overrides.CurrentContext
	}
	return config.CurrentContext
}
