"""What claims are compared with: independent texts, exact arithmetic, instances, differences."""
