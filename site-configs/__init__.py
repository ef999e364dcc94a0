"""What each site offers."""
