"""Tests on a real control plane: etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kwok as local processes."""
